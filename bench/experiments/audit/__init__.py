"""The verb `audit`: what one released model gives away, as a page, as JSON and as a table of its training records."""
