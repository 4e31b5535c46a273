"""What Sphinx needs to make a site of the pages: navigation, and the reference from the code."""
