"""Adds filters to a parsed template that charge what the sandbox of Jinja does not intercept.

Loops, macros, comparisons, slices and `~`. No template can name the filters: their names are no identifiers.
"""

from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

STEP, VALUE, TEXT, KEY = "charge step", "charge value", "charge text", "charge key"
MEMBERSHIP = frozenset(("in", "notin"))


class Instrumenter(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.body.insert(0, step_statement(node))
        if node.test is not None:  # skipped items are steps too; `step` is true
            node.test = nodes.And(step(node, 0), node.test, lineno=node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Macro:
        self.generic_visit(node)
        node.body.insert(0, step_statement(node))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.CallBlock:
        self.generic_visit(node)
        node.body.insert(0, step_statement(node))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Concat:
        self.generic_visit(node)
        node.nodes = [charged(each, TEXT) for each in node.nodes]
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Expr:
        self.generic_visit(node)
        first, *others = node.ops
        if first.op in MEMBERSHIP and not others and not is_constant(first.expr):
            test = nodes.Test(node.expr, "in", [first.expr], [], None, None, lineno=node.lineno)
            return test if first.op == "in" else nodes.Not(test, lineno=node.lineno)
        if not any(map(is_constant, (node.expr, *(operand.expr for operand in node.ops)))):
            node.expr = charged(node.expr, TEXT)
        for operand in others:
            operand.expr = charged(operand.expr, TEXT)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:
        self.generic_visit(node)
        is_slice = isinstance(node.arg, nodes.Slice) and node.ctx == "load"
        return charged(node, VALUE) if is_slice else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Dict:
        self.generic_visit(node)
        for pair in node.items:
            pair.key = charged(pair.key, KEY)
        return node


def instrument(template: nodes.Template) -> nodes.Template:
    """The template with the charges added."""
    Instrumenter().visit(template)
    return template


def charged(node: nodes.Expr, name: str) -> nodes.Expr:
    """The expression, whose value the filter charges; as it is if it is a constant."""
    return node if is_constant(node) else filtered(node, name)


def filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def step(node: nodes.Node, num_chars: int) -> nodes.Filter:
    return filtered(nodes.Const(num_chars, lineno=node.lineno), STEP)


def step_statement(node: Any) -> nodes.ExprStmt:
    """A statement that charges a step, and the template's own text that each pass over the body writes."""
    return nodes.ExprStmt(step(node, sum(map(data_chars, node.body))), lineno=node.lineno)


def data_chars(node: nodes.Node) -> int:
    return sum(len(data.data) for data in node.find_all(nodes.TemplateData))


def is_constant(node: nodes.Expr) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(map(is_constant, node.items))
    return isinstance(node, nodes.Const)
