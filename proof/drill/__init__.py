"""The initiators of the drills: stock libraries, several paths, numbered blocks, a verdict at the end."""
