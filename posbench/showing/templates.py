"""Pages and pictures from Jinja templates, which escape every value that they are not told is HTML
already.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import jinja2


def policy(script: str = "") -> str:
    """What a page may load and run: nothing but its own styles, pictures and this script.

    Args:
        script: the text between the tags, to the letter; "" if the page has none
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"; script-src 'sha256-{digest}'" if script else ""
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:{scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


def rendered(package: str, name: str, **values: Any) -> str:
    """The text of the template `name` of a package, without a line break at its end."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["policy"] = policy
    return environment.get_template(name).render(values)
