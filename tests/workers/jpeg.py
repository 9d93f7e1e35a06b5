"""HDR in JPEG files, read from the standards and by nothing of Kuno's: segments (ITU T.81), the list of pictures (CIPA
DC-007), gain maps (ISO 21496-1) and Adobe's XMP about them."""

import struct
import xml.etree.ElementTree as xml
from fractions import Fraction

ISO = b"urn:iso:std:iso:ts:21496:-1\0"
XMP = b"http://ns.adobe.com/xap/1.0/\0"
HDRGM = "{http://ns.adobe.com/hdr-gain-map/1.0/}"
ITEM = "{http://ns.google.com/photos/1.0/container/item/}"


class Jpeg:
    """One picture: its segments (marker, place of the body, body), its size, and what its pixels come from (coded)."""

    def __init__(self, data):
        assert data[:2] == b"\xff\xd8" and data[-2:] == b"\xff\xd9", "no JPEG from beginning to end"
        self.segments, at = [], 2
        while data[at:at + 2] != b"\xff\xda":
            assert data[at] == 0xFF
            marker, size = struct.unpack_from(">BH", data, at + 1)
            self.segments.append((marker, at + 4, data[at + 4:at + 2 + size]))
            at += 2 + size
        frame = next(body for marker, _, body in self.segments if 0xC0 <= marker <= 0xC2)
        _, self.height, self.width, self.channels = struct.unpack_from(">BHHB", frame)
        self.coded = [(marker, body) for marker, _, body in self.segments if not 0xE0 <= marker <= 0xEF], data[at:]

    def app(self, number, mark):
        """Place and body, behind its mark, of the only such segment."""
        (found,) = [(place + len(mark), body[len(mark):]) for marker, place, body in self.segments
                    if marker == 0xE0 + number and body.startswith(mark)]
        return found

    def described(self):
        return xml.fromstring(self.app(1, XMP)[1].decode())


def pictures(data):
    """(place, size) of each, by the list in the first one."""
    end = data.index(b"\xff\xda")
    start = data.index(b"MPF\0", 0, end) + 4
    order = {b"II*\0": "<", b"MM\0*": ">"}[data[start:start + 4]]
    (directory,) = struct.unpack_from(order + "I", data, start + 4)
    (count,) = struct.unpack_from(order + "H", data, start + directory)
    tags = {}
    for i in range(count):
        tag, kind, number, value = struct.unpack_from(order + "HHI4s", data, start + directory + 2 + 12 * i)
        tags[tag] = kind, number, value
    assert tags[0xB000] == (7, 4, b"0100")
    (many,) = struct.unpack(order + "I", tags[0xB001][2])
    (place,) = struct.unpack(order + "I", tags[0xB002][2])
    assert tags[0xB002][1] == 16 * many
    found = []
    for i in range(many):
        _, size, offset, _, _ = struct.unpack_from(order + "IIIHH", data, start + place + 16 * i)
        assert (offset == 0) == (i == 0)
        found.append((start + offset if i else 0, size))
    return found


def iso_numbers(body):
    """flags, then base and alternate headroom, and for each channel min, max, gamma and the two offsets."""
    least, written, flags = struct.unpack_from(">HHB", body)
    assert (least, written, flags & 0x0C) == (0, 0, 0)
    kinds = "II" "II" + ("iI" "iI" "II" "iI" "iI") * (3 if flags & 0x80 else 1)
    numbers = struct.unpack(">" + kinds, body[5:])
    return flags, [Fraction(*numbers[i:i + 2]) for i in range(0, len(numbers), 2)]


class Hdr:
    """A picture and its gain map, whose carriers all say the same."""

    def __init__(self, data):
        (first, size), (place, self.map_bytes) = pictures(data)
        assert first == 0 and size == place and place + self.map_bytes == len(data), "something is between or behind"
        self.base, self.map = Jpeg(data[:size]), Jpeg(data[place:])
        assert self.base.app(2, ISO)[1] == bytes(4)
        self.flags, self.numbers = iso_numbers(self.map.app(2, ISO)[1])
        items = [item.attrib for item in self.base.described().iter() if ITEM + "Semantic" in item.attrib]
        assert [item[ITEM + "Semantic"] for item in items] == ["Primary", "GainMap"]
        assert int(items[1][ITEM + "Length"]) == self.map_bytes
        (told,) = [e.attrib for e in self.map.described().iter() if HDRGM + "Version" in e.attrib]
        assert told[HDRGM + "BaseRenditionIsHDR"] == "False"
        names = ("HDRCapacityMin", "HDRCapacityMax", "GainMapMin", "GainMapMax", "Gamma", "OffsetSDR", "OffsetHDR")
        self.told = [float(told[HDRGM + name]) for name in names]
