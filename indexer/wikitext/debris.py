"""What is left around something that was taken out: "(; born 1950)", "a , b", "1888. .".

Left out on purpose: what authors write as it is, such as main(), an ellipsis, .NET. One search finds
all the rest, once: where an edit makes new debris ("( ( ) )"), the caller searches again.
"""

from __future__ import annotations

import re

from indexer.wikitext.edits import Edit

_DEBRIS = re.compile(
    r"""
    (?=[(,;\[\]{|}\t\x04] | [ ][ ).,;])  # else every alternative would be tried at every character
    (?:
    (?P<nothing>
        [ ](?<=\w\.[ ])\.(?!\S|[ ]\.)                # "1888. ."
      | [ ](?=[ )]|[,;](?:[ \n)\]"”]|\Z))
      | [ ](?<!\.[ ])(?=\.(?![\w.]|[ ]\.))           # a space before a comma
      | \((?<!\w\()[ ,;:/–—-]*\) | \([ ,;:/–—-]+\)   # brackets around nothing, not main()
      | [,;](?=[ ][–—][ ])                             # "(x; – 1982)"
      | ,(?=[ ]*(?:[,;][ ]|\))) | ;(?=[ ]*\))        # ", ,", "1950, )"
      | \[[ ,;]*\]
      | \[\[ | \]\] | \{\{+ | \}\}+ | \{\| | \|\}    # brackets without a partner
    )
    | (?P<bracket> \([ ,;:]+ )                       # "(; born 1950)"
    | (?P<semicolon> ;[ ]*,(?=[ ]) )
    | (?P<space> \t | \x04 )                         # \x04: `ITEM`, not at the start of a line
    )
    """,
    re.VERBOSE,
)
_DEBRIS_BECOMES = {"nothing": "", "bracket": "(", "semicolon": ";", "space": " "}


def debris(text: str) -> list[Edit]:
    """The edits that remove what is found, in order."""
    return [
        (match.start(), match.end(), _DEBRIS_BECOMES[match.lastgroup or ""])
        for match in _DEBRIS.finditer(text)
    ]
