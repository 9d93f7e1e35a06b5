"""PNG files in plain Python: 8-bit RGB and RGBA without interlacing, checked to the last byte, and written."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {2: 3, 6: 4}  # by colour type


def chunks(data):
    """(kind, body) of each chunk; nothing but chunks may be there."""
    assert data.startswith(SIGNATURE), "no PNG signature"
    at, kind = len(SIGNATURE), None
    while kind != b"IEND":
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        assert struct.unpack_from(">I", data, at + 8 + size)[0] == zlib.crc32(kind + body), f"checksum of {kind}"
        yield kind, body
        at += 12 + size
    assert at == len(data), f"{len(data) - at} bytes after the end"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_file(width, height, colour, rows):
    """Of 8 bits, from rows that are not filtered."""
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def coloured(width, height, pixel):
    """A picture file of what pixel(x, y) gives."""
    rows = b"".join(b"\0" + b"".join(pixel(x, y) for x in range(width)) for y in range(height))
    return png_file(width, height, 2, rows)


def text_of(kind, body):
    """Keyword and text of a text chunk of any of the three kinds."""
    key, rest = body.split(b"\0", 1)
    if kind == b"iTXt":
        is_packed = rest[0]
        _language, _translated, text = rest[2:].split(b"\0", 2)
        return key.decode(), (zlib.decompress(text) if is_packed else text).decode()
    return key.decode(), (zlib.decompress(rest[1:]) if kind == b"zTXt" else rest).decode("latin-1")


def paeth(left, up, corner):
    distance = [(abs(up - corner), 0, left), (abs(left - corner), 1, up), (abs(left + up - 2 * corner), 2, corner)]
    return min(distance)[2]


def unfilter(data, height, row_bytes, channels):
    assert len(data) == height * (row_bytes + 1)
    before, pixels = bytes(row_bytes), bytearray()
    for y in range(height):
        kind, *row = data[y * (row_bytes + 1):(y + 1) * (row_bytes + 1)]
        for x in range(row_bytes):
            left, corner = (row[x - channels], before[x - channels]) if x >= channels else (0, 0)
            guess = (0, left, before[x], (left + before[x]) // 2, paeth(left, before[x], corner))[kind]
            row[x] = (row[x] + guess) & 255
        pixels += bytes(row)
        before = row
    return bytes(pixels)


class Picture:
    """width, height, channels, pixels (bytes, row after row) and texts (keyword to text)."""

    def __init__(self, data):
        packed, self.texts = b"", {}
        for kind, body in chunks(data):
            if kind == b"IHDR":
                self.width, self.height, depth, colour, *rest = struct.unpack(">IIBBBBB", body)
                assert depth == 8 and colour in CHANNELS and rest == [0, 0, 0], "another kind of PNG"
                self.channels = CHANNELS[colour]
            elif kind == b"IDAT":
                packed += body
            elif kind in (b"tEXt", b"zTXt", b"iTXt"):
                key, text = text_of(kind, body)
                assert key not in self.texts, f"two texts '{key}'"
                self.texts[key] = text
        self.pixels = unfilter(zlib.decompress(packed), self.height, self.width * self.channels, self.channels)
