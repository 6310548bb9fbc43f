"""The reference in the book is that of the package."""

import dpopt
import reference


def test_the_page_is_what_the_package_says():
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "write it anew: python reference.py"


def test_every_public_name_is_in_a_part():
    assert sorted(name for names in reference.PARTS.values() for name in names) == sorted(set(dpopt.__all__) - {"__version__"})
