"""What a pair rule looks at: both readings, what was asked, and how to point at a value."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from server.config.checks import Reading, located
from server.config.records import BlockDraft, TargetConfig
from server.config.values import clip
from server.findings import JsonValue, Location


class Asked(NamedTuple):
    """The settings that pair rules compare with; lengths in tokens, None means not set.

    `dtype` is auto or a compute dtype; `fit_length`: a length that fits is to be chosen.
    `sources` maps a setting to where it came from.
    """

    dtype: str = "auto"
    max_model_len: int | None = None
    num_speculative_tokens: int | None = None
    sources: Mapping[str, str] = MappingProxyType({})
    fit_length: bool = False

    def location(self, setting: str) -> Location:
        """The location of a setting, by its flag."""
        flag = f"--{setting.replace('_', '-')}"
        value: JsonValue = getattr(self, setting)
        return Location(role="setting", flag=flag, value=value, source=self.sources.get(setting))


class Pair(NamedTuple):
    """A draft, a target and the settings, as far as they could be read."""

    draft: Reading[BlockDraft]
    target: Reading[TargetConfig]
    asked: Asked

    def at_draft(self, name: str, item: int | None = None) -> Location:
        """The location of a draft field, or of one item of it."""
        return place(self.draft, name, item)

    def at_target(self, name: str) -> Location:
        """The location of a target field."""
        return place(self.target, name)

    def both(self, *names: str) -> Iterator[Location]:
        """The locations of fields that both sides have, draft first."""
        for name in names:
            yield self.at_draft(name)
            yield self.at_target(name)

    def name(self, name: str) -> str:
        """A draft field by the key that the file has for it."""
        pointer = self.draft.pointers.get(name) or f"/{name}"
        return pointer.rpartition("/")[2]

    def unstated(self, needs: Iterable[str]) -> str:
        """The first of `needs` that the draft's file leaves open; empty when it states all."""
        for need in needs:
            side, _, name = need.partition(".")
            stated = side != "draft" or need in self.unresolved()
            if not stated and getattr(self.draft.partial, name) is None:
                return name
        return ""

    def unresolved(self) -> dict[str, str]:
        """Names as rules need them ("draft.hidden_size"), mapped to the rule they wait on."""
        draft = {f"draft.{name}": rule for name, rule in self.draft.unresolved.items()}
        return draft | {f"target.{name}": rule for name, rule in self.target.unresolved.items()}


def shown(value: JsonValue) -> str:
    """A number or name as a message shows it: 1000000.0 as 1000000, exact otherwise."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def shown_ids(tokens: tuple[int, ...]) -> str:
    """Token ids as a message shows them: one by itself, several as a list."""
    return str(tokens[0]) if len(tokens) == 1 else str(list(tokens))


def place(
    reading: Reading[BlockDraft] | Reading[TargetConfig], name: str, item: int | None = None
) -> Location:
    """The location of a field, or of one item of a list."""
    value = getattr(reading.partial, name)
    pointer = reading.pointers.get(name)
    if item is not None:
        value = value[item]
        pointer = f"{pointer}/{item}" if pointer else pointer
    return located(reading, pointer, clip(value))
