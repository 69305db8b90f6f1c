"""The guide's proof: the commands of a page, and how each is handled."""

from __future__ import annotations

import unittest

from proof.guide.blocks import Command, Page, commands_of, script_of
from proof.runtime import ProofError

PAGE = """
# A page

```
bulkhead pool list      # what is there
openssl req \\
    -x509
```

```yaml
not: a command
```

```
bulkhead pool-server tank --nbd 10.0.0.1:10809 &
bulkhead drill
```
"""


class GuideTest(unittest.TestCase):
    """A page of three kinds of blocks."""

    def test_commands_are_those_of_blocks_without_a_language(self) -> None:
        found = commands_of(PAGE)
        self.assertEqual([command.line for command in found], [5, 6, 15, 16])
        self.assertEqual(found[1], Command(6, "openssl req     -x509"))

    def test_a_server_is_waited_for_and_others_are_left_to_others(self) -> None:
        page = Page(instead=(("10.0.0.1", "127.0.0.1"),), elsewhere=(("bulkhead drill", "needs a lab"),))
        script, ran, left = script_of(page, PAGE, ["typist"])
        self.assertEqual((ran, left), (3, 1))
        self.assertIn("serve tank --nbd 127.0.0.1:10809", script)
        self.assertNotIn("bulkhead drill", script)

    def test_what_asks_is_answered_on_a_terminal(self) -> None:
        script, _, _ = script_of(Page(typed=(("bulkhead pool list", "a secret"),)), PAGE, ["typist"])
        self.assertIn("typist 'a secret' 'bulkhead pool list", script)

    def test_a_table_that_the_page_has_outgrown_is_told(self) -> None:
        with self.assertRaises(ProofError):
            script_of(Page(elsewhere=(("bulkhead pool split", "no more"),)), PAGE, [])


if __name__ == "__main__":
    unittest.main()
