"""Drawing a part of a picture: what stays stays to the byte, and requests that contradict themselves are refused."""

import struct
import zlib

import png
import tap
from kuno import TINY, Case, add_cases

STEPS = ["--steps", "2", "--seed", "1"]


def written(width, height, pixel):
    """A PNG file of RGBA, whose pixels are pixel(x, y)."""
    rows = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return png.SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def motley(x, y):
    return (x * 7 % 256, y * 5 % 256, (x ^ y) % 256, 255)


def left_half(x, _y):
    return (255, 255, 255, 255) if x < 35 else (0, 0, 0, 255)


class Inpaint(Case):
    """A picture of 70x43 pixels and a mask of its left half."""

    def setUp(self):
        super().setUp()
        self.picture = self.write("picture.png", written(70, 43, motley))
        self.mask = self.write("mask.png", written(70, 43, left_half))

    def drawn(self, *args):
        self.draws("a boat", *TINY, *STEPS, "--no-region", "--init-image", self.picture, *args, "--output", "out.png")
        return png.Picture((self.folder / "out.png").read_bytes())

    def same(self, picture, left=0, top=0):
        """Places of the given picture whose pixel is in the result."""
        c = picture.channels
        return {(x, y) for x in range(70) for y in range(43)
                if picture.pixels[((top + y) * picture.width + left + x) * c:][:3] == bytes(motley(x, y)[:3])}

    def test_mask(self):
        """keeps_every_pixel_outside_the_mask_and_the_size_of_the_picture"""
        picture = self.drawn("--mask", self.mask)
        self.assertEqual((picture.width, picture.height), (70, 43))
        right = {(x, y) for x in range(35, 70) for y in range(43)}
        same = self.same(picture)
        self.assertEqual(right - same, set())
        self.assertLess(len(same - right), 35 * 43 // 10)
        self.assertIn("Mask: given", picture.texts["parameters"])
        self.assertIn("Size: 70x43", picture.texts["parameters"])

    def test_invert(self):
        """keeps_the_other_part_of_an_inverted_mask"""
        same = self.same(self.drawn("--mask", self.mask, "--mask-invert"))
        self.assertLessEqual({(x, y) for x in range(35) for y in range(43)}, same)
        self.assertLess(len(same), 70 * 43 * 6 // 10)

    def test_outpaint(self):
        """draws_room_on_the_sides_and_keeps_the_picture"""
        picture = self.drawn("--outpaint", "10,5,0,0", "--mask-fade", "0")
        self.assertEqual((picture.width, picture.height), (80, 48))
        self.assertEqual(len(self.same(picture, 10, 5)), 70 * 43)
        self.assertIn('Outpaint: "10,5,0,0"', picture.texts["parameters"])

    def test_same(self):
        """draws_the_same_again"""
        first = self.drawn("--mask", self.mask)
        self.assertEqual(self.drawn("--mask", self.mask).pixels, first.pixels)

    def refuses_masked(self, says, *args):
        args = [{"PICTURE": self.picture, "MASK": self.mask}.get(a, a) for a in args]
        self.refuses(["generate", "a boat", *TINY, *args], says)


add_cases(Inpaint, [(promise, lambda self, args=args, says=says: self.refuses_masked(says, *args))
                    for promise, says, args in (
    ("refuses_a_mask_without_a_picture", "--mask works on --init-image; give that, too", ("--mask", "MASK")),
    ("refuses_to_outpaint_nothing", "--outpaint works on --init-image; give that, too", ("--outpaint", "8,8,8,8")),
    ("refuses_a_mask_beside_outpainting", "--outpaint has a mask of its own; leave --mask out",
     ("--init-image", "PICTURE", "--mask", "MASK", "--outpaint", "8,0,0,0")),
    ("refuses_a_mask_of_another_size", "the mask is 70x43 pixels large and the picture 80x56",
     ("--init-image", str(TINY[1]).replace("models.toml", "edit/reference0.png"), "--mask", "MASK")),
    ("refuses_a_mask_that_is_no_picture", "--mask: '", ("--init-image", "PICTURE", "--mask", TINY[1])),
    ("refuses_a_mask_that_is_absent", "--mask: 'absent.png': no such file",
     ("--init-image", "PICTURE", "--mask", "absent.png")),
    ("refuses_three_sides", "--outpaint needs four whole numbers: left,top,right,bottom",
     ("--init-image", "PICTURE", "--outpaint", "8,8,8")),
    ("refuses_half_a_pixel", "--outpaint needs four whole numbers",
     ("--init-image", "PICTURE", "--outpaint", "8,8,8,0.5")),
    ("refuses_a_side_below_0", "--outpaint: -1 is outside 0 to 8192",
     ("--init-image", "PICTURE", "--outpaint=-1,0,0,0")),
    ("refuses_sides_that_add_nothing", "adds nothing", ("--init-image", "PICTURE", "--outpaint", "0,0,0,0")),
    ("refuses_more_than_the_model_can_make", "makes pictures from 16 to 4096 pixels",
     ("--init-image", "PICTURE", "--outpaint", "4096,0,0,0")),
    ("refuses_a_size_beside_outpainting", "leave --size out",
     ("--init-image", "PICTURE", "--outpaint", "8,8,8,8", "--size", "64x64")),
    ("refuses_to_grow_no_mask", "--mask-grow changes --mask; give that, too",
     ("--init-image", "PICTURE", "--mask-grow", "3")),
    ("refuses_to_fade_no_mask", "--mask-fade goes with --mask or --outpaint",
     ("--init-image", "PICTURE", "--mask-fade", "3")),
    ("refuses_to_grow_by_a_mile", "--mask-grow: 5000 is outside 0 to 256",
     ("--init-image", "PICTURE", "--mask", "MASK", "--mask-grow", "5000")),
)])

add_cases(Inpaint, [
    ("refuses_a_prompt_that_speaks_of_a_reference_which_is_not_given",
     lambda self: self.refuses(["generate", "the hat of <image2>", *TINY, "--reference", self.picture],
                               "the prompt speaks of <image2>; reference pictures given: 1")),
])

if __name__ == "__main__":
    tap.main()
