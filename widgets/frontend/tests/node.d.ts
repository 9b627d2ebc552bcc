// The few parts of Node that the tests touch, so that the type check needs no further package.
declare module "node:test" {
  export function test(name: string, options: { skip?: string | false }, body: () => void | Promise<void>): void;
  export function test(name: string, body: () => void | Promise<void>): void;
}
declare module "node:assert/strict" {
  const assert: {
    (value: unknown, message?: string): asserts value;
    equal(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    notEqual(actual: unknown, expected: unknown, message?: string): void;
    throws(body: () => unknown, expected: RegExp): void;
    match(text: string, pattern: RegExp): void;
    doesNotMatch(text: string, pattern: RegExp): void;
  };
  export default assert;
}
declare module "node:child_process" {
  export function spawnSync(
    command: string,
    args: string[],
    options: { input?: string; encoding: "utf8"; maxBuffer?: number },
  ): { status: number | null; stdout: string; stderr: string; error?: Error };
}
declare const process: { env: Record<string, string | undefined>; argv: string[] };
