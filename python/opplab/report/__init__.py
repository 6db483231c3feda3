"""Pages and pictures: HTML templates, SVG charts, and the report of a sweep."""
