"""Pictures of pages in fewer bytes. The filters that Chromium's PNG has suit photographs: without them text is a fifth
smaller, and every pixel stays the same.
"""

import base64
import struct
import zlib

from playwright.sync_api import Page

PIXELS = """async text => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${text}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  let binary = '';
  for (let at = 0; at < pixels.length; at += 32768) binary += String.fromCharCode(...pixels.subarray(at, at + 32768));
  return [image.width, image.height, btoa(binary)];
}"""
SIGNATURE = b"\x89PNG\r\n\x1a\n"
DEPTH, TRUE_COLOUR = 8, 2


def smaller(picture: bytes, page: Page) -> bytes:
    """Return the same PNG in fewer bytes, without transparency. A blank page of a browser reads its pixels."""
    width, height, text = page.evaluate(PIXELS, base64.b64encode(picture).decode())
    pixels = base64.b64decode(text)
    colours = bytearray(width * height * 3)
    for channel in range(3):
        colours[channel::3] = pixels[channel::4]
    stride = width * 3
    rows = b"".join(b"\0" + colours[at : at + stride] for at in range(0, len(colours), stride))
    head = struct.pack(">IIBBBBB", width, height, DEPTH, TRUE_COLOUR, 0, 0, 0)
    return SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
