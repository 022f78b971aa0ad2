"""The page of an audit: one HTML file that asks nothing of a network.

`_charts` draws, `_examples` shows, `_recipe` tells what to type, and `_page` puts it
together. What stands still lies beside as HTML, CSS and JavaScript. All that comes from
users or their files is escaped where it is written.
"""

from skhash._audit.page._page import fragment, page
from skhash._audit.page._png import check_image_shape

__all__ = ["check_image_shape", "fragment", "page"]
