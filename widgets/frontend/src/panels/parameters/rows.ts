// The rows of the table: what the filter shows, in the order that was asked for, in groups that follow the scopes.

import { natural } from "../../core/format";
import type { Fits } from "./filter";

export interface Parameter {
  name: string;
  shape: number[];
  dtype: string;
  count: number;
  bytes: number;
  /** Set by an update of the graph, such as a running mean, and so never trained. */
  running: boolean;
}

export interface Row {
  /** Name of the parameter, or path of the scope with a slash behind it. */
  key: string;
  label: string;
  depth: number;
  /** The parameter; a group has none. */
  parameter?: Parameter;
  /** Parameters of a group, those of its inner groups included; of a parameter itself. */
  members: Parameter[];
  open: boolean;
  /** Paths of the scopes of a group, one unless outer ones hold nothing else and share its row. */
  scopes: string[];
}

export interface Order {
  fits: Fits;
  /** Sorts upwards; the same for parameters that shall stay in the order of the graph. */
  rank?: (parameter: Parameter) => number | string;
  down: boolean;
  groups: boolean;
  closed: ReadonlySet<string>;
}

interface Scope {
  path: string;
  children: Map<string, Scope | Parameter>;
  members: Parameter[];
}

/** All parameters that are shown, sorted; what has no rank (NaN) comes last either way. */
export function sorted(parameters: readonly Parameter[], { fits, rank, down }: Order): Parameter[] {
  const shown = parameters.filter(({ name }) => fits(name));
  if (!rank) return shown;
  const keyed = shown.map((parameter) => ({ parameter, key: rank(parameter) }));
  const missing = (key: number | string): boolean => typeof key === "number" && Number.isNaN(key);
  const sign = down ? -1 : 1;
  keyed.sort((a, b) => {
    if (missing(a.key) || missing(b.key)) return Number(missing(a.key)) - Number(missing(b.key));
    if (typeof a.key === "string") return sign * natural(a.key, b.key as string);
    return sign * (a.key - (b.key as number));
  });
  return keyed.map(({ parameter }) => parameter);
}

/** Rows from top to bottom. A group stands where its first parameter would, so that groups are sorted, too. */
export function rowsOf(parameters: readonly Parameter[], order: Order): Row[] {
  const shown = sorted(parameters, order);
  if (!order.groups) return shown.map((parameter) => leaf(parameter, parameter.name, 0));
  const root: Scope = { path: "", children: new Map(), members: [] };
  for (const parameter of shown) {
    const parts = parameter.name.split("/");
    let scope = root;
    for (const part of parts.slice(0, -1)) {
      const key = `${part}/`;
      let inner = scope.children.get(key) as Scope | undefined;
      if (!inner) {
        inner = { path: scope.path + key, children: new Map(), members: [] };
        scope.children.set(key, inner);
      }
      inner.members.push(parameter);
      scope = inner;
    }
    scope.children.set(parts[parts.length - 1], parameter);
  }
  const rows: Row[] = [];
  const add = (scope: Scope, depth: number): void => {
    for (const [label, child] of scope.children) {
      if ("name" in child) {
        rows.push(leaf(child, label, depth));
        continue;
      }
      // A scope that holds nothing but a scope shares its row.
      const chain = [child];
      for (let only = single(child); only; only = single(only)) chain.push(only);
      const inner = chain[chain.length - 1];
      const scopes = chain.map(({ path }) => path.slice(0, -1));
      const open = !scopes.some((scope) => order.closed.has(scope));
      rows.push({ key: inner.path, label: inner.path.slice(scope.path.length), depth, members: inner.members, open, scopes });
      if (open) add(inner, depth + 1);
    }
  };
  add(root, 0);
  return rows;
}

function leaf(parameter: Parameter, label: string, depth: number): Row {
  return { key: parameter.name, label, depth, parameter, members: [parameter], open: false, scopes: [] };
}

function single(scope: Scope): Scope | undefined {
  if (scope.children.size !== 1) return undefined;
  const [only] = scope.children.values();
  return "name" in only ? undefined : only;
}
