"""The report's figures, as SVG: what each draws, where names stand in it, and how it takes the page's colours."""
