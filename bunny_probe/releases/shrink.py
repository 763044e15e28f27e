"""Smaller pictures in an executed notebook: a figure has few colours, a palette holds it in half the bytes."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

__all__ = ["shrink_pictures"]

_EMBEDDED = re.compile(r"(?<=data:image/png;base64,)[A-Za-z0-9+/=]+")


def shrink_pictures(notebook: dict[str, Any]) -> None:
    """Replace PNG outputs, and those within HTML outputs, by ones of 256 colours where these are smaller."""
    for cell in notebook.get("cells", []):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = _smaller("".join(data["image/png"]))
            if "text/html" in data:
                page = "".join(data["text/html"])
                data["text/html"] = _EMBEDDED.sub(lambda found: _smaller(found.group()), page)


def _smaller(encoded: str) -> str:
    from PIL import Image

    original = base64.b64decode(encoded)
    try:
        with Image.open(io.BytesIO(original)) as picture:
            few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            buffer = io.BytesIO()
            few.save(buffer, "PNG")
    except OSError:  # not a picture that can be read: kept as it is
        return encoded
    small = buffer.getvalue()
    return base64.b64encode(small).decode("ascii") if len(small) < len(original) else encoded
