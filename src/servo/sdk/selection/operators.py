"""The parts of a selection that combine others: set operations and graph traversal.

Unions, intersections and complements obey the laws of sets within all assets of the project. The
functions here also flatten them, so that a chain of any length is one level deep, and has the form
to which its text parses back.
"""

from collections.abc import Iterable

from servo.core.graph import downstream_of, reachable
from servo.core.keys import AssetKey
from servo.sdk.definitions.project import Project
from servo.sdk.selection.filters import AND, NOT, OPERAND, OR, TRAVERSAL, Keys, Selector


class Union(Selector, frozen=True):
    """The assets in any operand."""

    operands: tuple[Selector, ...]

    binding = OR

    def resolve_inner(self, project: Project) -> Keys:
        """The union."""
        return Keys().union(*(operand.resolve_inner(project) for operand in self.operands))

    def to_selection_str(self) -> str:
        """The operands; an empty union has no text."""
        if not self.operands:
            return Selector.to_selection_str(self)
        return " or ".join(operand.operand_str(AND) for operand in self.operands)


class Intersection(Selector, frozen=True):
    """The assets in all operands, of which there are two or more."""

    operands: tuple[Selector, ...]

    binding = AND

    def resolve_inner(self, project: Project) -> Keys:
        """The intersection."""
        first, *others = (operand.resolve_inner(project) for operand in self.operands)
        return first.intersection(*others)

    def to_selection_str(self) -> str:
        """The operands."""
        return " and ".join(operand.operand_str(NOT) for operand in self.operands)


class Complement(Selector, frozen=True):
    """All assets that are not in the child, including external ones, so that `~~a` is `a`."""

    child: Selector

    binding = NOT

    def resolve_inner(self, project: Project) -> Keys:
        """The complement."""
        return frozenset(project.specs) - self.child.resolve_inner(project)

    def to_selection_str(self) -> str:
        """The child, negated."""
        return f"not {self.child.operand_str(TRAVERSAL)}"


class Upstream(Selector, frozen=True):
    """The child and its upstream assets. External assets are traversed but not selected."""

    child: Selector
    depth: int | None = None

    binding = TRAVERSAL

    def resolve_inner(self, project: Project) -> Keys:
        """The child and its upstream assets that have code."""
        chosen = self.child.resolve_inner(project)
        found = reachable(chosen, project.upstream, depth=self.depth)
        return chosen | (found.keys() & project.makers.keys())

    def to_selection_str(self) -> str:
        """The child after a plus."""
        return f"{_number(self.depth)}+{self.child.operand_str(OPERAND)}"


class Downstream(Selector, frozen=True):
    """The child and its downstream assets."""

    child: Selector
    depth: int | None = None

    binding = TRAVERSAL

    def resolve_inner(self, project: Project) -> Keys:
        """The child and its downstream assets."""
        chosen = self.child.resolve_inner(project)
        return frozenset(reachable(chosen, downstream_of(project.upstream), depth=self.depth))

    def to_selection_str(self) -> str:
        """The child before a plus."""
        return f"{self.child.operand_str(OPERAND)}+{_number(self.depth)}"


class Roots(Selector, frozen=True):
    """The assets of the child without an upstream asset in it; paths may leave the child."""

    child: Selector

    def resolve_inner(self, project: Project) -> Keys:
        """The assets with code that have no upstream asset with code in the child."""
        chosen = self.child.resolve_inner(project) & project.makers.keys()
        below: set[AssetKey] = set()
        for key in project.order:
            if any(up in chosen or up in below for up in project.upstream[key]):
                below.add(key)
        return chosen - below

    def to_selection_str(self) -> str:
        """The function of the same name."""
        return f"roots({self.child.to_selection_str()})"


class Sinks(Selector, frozen=True):
    """The assets of the child without a downstream asset in it; paths may leave the child."""

    child: Selector

    def resolve_inner(self, project: Project) -> Keys:
        """The assets that have no downstream asset in the child."""
        chosen = self.child.resolve_inner(project)
        above: set[AssetKey] = set()
        for key in reversed(project.order):
            if key in chosen or key in above:
                above.update(project.upstream[key])
        return chosen - above

    def to_selection_str(self) -> str:
        """The function of the same name."""
        return f"sinks({self.child.to_selection_str()})"


class UpstreamSources(Selector, frozen=True):
    """The external assets upstream of the child, at any distance."""

    child: Selector

    def resolve_inner(self, project: Project) -> Keys:
        """The upstream assets that the project defines without code."""
        chosen = self.child.resolve_inner(project)
        parents = {up for key in chosen for up in project.upstream[key]}
        found = reachable(parents, project.upstream)
        return frozenset((found.keys() & project.specs.keys()) - project.makers.keys())


class Neighbors(Selector, frozen=True):
    """The child and all assets of the same functions."""

    child: Selector

    def resolve_inner(self, project: Project) -> Keys:
        """The child and the other assets of its functions."""
        chosen = self.child.resolve_inner(project)
        makers = [project.makers[key] for key in chosen if key in project.makers]
        return chosen.union(*(maker.keys for maker in makers))


class WithoutChecks(Selector, frozen=True):
    """The child without its checks."""

    child: Selector

    def resolve_inner(self, project: Project) -> Keys:
        """The same assets."""
        return self.child.resolve_inner(project)


def any_of(selectors: Iterable[Selector]) -> Selector:
    """The union; empty if there are no selectors."""
    flat: list[Selector] = []
    for selector in selectors:
        flat += selector.operands if isinstance(selector, Union) else (selector,)
    return flat[0] if len(flat) == 1 else Union(tuple(flat))


def all_of(selectors: Iterable[Selector]) -> Selector:
    """The intersection of one or more selectors."""
    flat: list[Selector] = []
    for selector in selectors:
        flat += selector.operands if isinstance(selector, Intersection) else (selector,)
    return flat[0] if len(flat) == 1 else Intersection(tuple(flat))


def none_of(selector: Selector) -> Selector:
    """The complement."""
    return selector.child if isinstance(selector, Complement) else Complement(selector)


def _number(depth: int | None) -> str:
    return "" if depth is None else str(depth)
