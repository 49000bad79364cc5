"""Pages and pictures from Jinja templates, which escape every value that they are not told is HTML
already.
"""

from __future__ import annotations

from typing import Any

import jinja2


def rendered(package: str, name: str, **values: Any) -> str:
    """The text of the template `name` of a package, without a line break at its end."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name).render(values)
