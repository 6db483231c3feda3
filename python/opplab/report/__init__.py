"""Pages and pictures: HTML templates, SVG charts, tables as text; knows nothing of what is shown."""
