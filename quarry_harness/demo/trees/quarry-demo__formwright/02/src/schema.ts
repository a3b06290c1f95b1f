import { accept, below, reject, type Issue, type Result } from "./result.js";
import { parseDecimal } from "./numbers.js";

export abstract class Schema<T> {
  abstract parse(input: unknown): Result<T>;

  abstract describe(): string;

  optional(): Schema<T | undefined> {
    return new OptionalSchema(this);
  }

  refine(check: (value: T) => boolean, code: string, message: string): Schema<T> {
    return new RefinedSchema(this, check, code, message);
  }

  transform<U>(map: (value: T) => U): Schema<U> {
    return new TransformedSchema(this, map);
  }

  parseOrThrow(input: unknown): T {
    const result = this.parse(input);
    if (!result.ok) {
      throw new ValidationError(result.issues);
    }
    return result.value;
  }
}

export class ValidationError extends Error {
  constructor(readonly issues: readonly Issue[]) {
    super(issues.map((issue) => issue.message).join("; "));
    this.name = "ValidationError";
  }
}

class OptionalSchema<T> extends Schema<T | undefined> {
  constructor(private readonly inner: Schema<T>) {
    super();
  }

  parse(input: unknown): Result<T | undefined> {
    return input === undefined || input === "" ? accept(undefined) : this.inner.parse(input);
  }

  describe(): string {
    return `${this.inner.describe()}?`;
  }
}

class RefinedSchema<T> extends Schema<T> {
  constructor(
    private readonly inner: Schema<T>,
    private readonly check: (value: T) => boolean,
    private readonly code: string,
    private readonly message: string,
  ) {
    super();
  }

  parse(input: unknown): Result<T> {
    const result = this.inner.parse(input);
    if (result.ok && !this.check(result.value)) {
      return reject(this.code, this.message);
    }
    return result;
  }

  describe(): string {
    return this.inner.describe();
  }
}

class TransformedSchema<T, U> extends Schema<U> {
  constructor(
    private readonly inner: Schema<T>,
    private readonly map: (value: T) => U,
  ) {
    super();
  }

  parse(input: unknown): Result<U> {
    const result = this.inner.parse(input);
    return result.ok ? accept(this.map(result.value)) : result;
  }

  describe(): string {
    return this.inner.describe();
  }
}

export class TextSchema extends Schema<string> {
  constructor(private readonly limits: { min?: number; max?: number; pattern?: RegExp } = {}) {
    super();
  }

  parse(input: unknown): Result<string> {
    if (typeof input !== "string") {
      return reject("type", "Please enter text.");
    }
    const text = input.trim();
    const length = [...text].length;
    if (length < (this.limits.min ?? 0)) {
      return reject("too_short", `Use at least ${this.limits.min} characters.`);
    }
    if (length > (this.limits.max ?? Infinity)) {
      return reject("too_long", `Use at most ${this.limits.max} characters.`);
    }
    if (this.limits.pattern && !this.limits.pattern.test(text)) {
      return reject("pattern", "This does not have the expected form.");
    }
    return accept(text);
  }

  describe(): string {
    return "text";
  }
}

export class NumberSchema extends Schema<number> {
  constructor(private readonly limits: { min?: number; max?: number; whole?: boolean } = {}) {
    super();
  }

  parse(input: unknown): Result<number> {
    const value = typeof input === "string" ? parseDecimal(input) : input;
    if (typeof value !== "number" || !Number.isFinite(value)) {
      return reject("type", "Please enter a number.");
    }
    if (this.limits.whole && !Number.isInteger(value)) {
      return reject("whole", "Please enter a whole number.");
    }
    if (value < (this.limits.min ?? -Infinity) || value > (this.limits.max ?? Infinity)) {
      return reject("range", `Allowed is ${this.limits.min ?? "any"} to ${this.limits.max ?? "any"}.`);
    }
    return accept(value);
  }

  describe(): string {
    return this.limits.whole ? "whole number" : "number";
  }
}

type Shape = Record<string, Schema<unknown>>;
export type Infer<S extends Shape> = { [K in keyof S]: S[K] extends Schema<infer T> ? T : never };

export class ObjectSchema<S extends Shape> extends Schema<Infer<S>> {
  constructor(readonly shape: S) {
    super();
  }

  parse(input: unknown): Result<Infer<S>> {
    if (typeof input !== "object" || input === null) {
      return reject("type", "Please fill in the form.");
    }
    const values: Record<string, unknown> = {};
    const issues: Issue[] = [];
    for (const [name, schema] of Object.entries(this.shape)) {
      const result = below(name, schema.parse((input as Record<string, unknown>)[name]));
      if (result.ok) {
        values[name] = result.value;
      } else {
        issues.push(...result.issues);
      }
    }
    return issues.length > 0 ? { ok: false, issues } : accept(values as Infer<S>);
  }

  pick<K extends keyof S>(...names: K[]): ObjectSchema<Pick<S, K>> {
    const shape = {} as Pick<S, K>;
    for (const name of names) {
      shape[name] = this.shape[name];
    }
    return new ObjectSchema(shape);
  }

  describe(): string {
    const fields = Object.entries(this.shape).map(([name, schema]) => `${name}: ${schema.describe()}`);
    return `{ ${fields.join(", ")} }`;
  }
}

export class ListSchema<T> extends Schema<T[]> {
  constructor(private readonly item: Schema<T>, private readonly max = Infinity) {
    super();
  }

  parse(input: unknown): Result<T[]> {
    const items = Array.isArray(input) ? input : [input];
    if (items.length > this.max) {
      return reject("too_many", `Choose at most ${this.max}.`);
    }
    const results = items.map((item, index) => below(index, this.item.parse(item)));
    const issues = results.flatMap((result) => (result.ok ? [] : result.issues));
    return issues.length > 0
      ? { ok: false, issues }
      : accept(results.map((result) => (result as { ok: true; value: T }).value));
  }

  describe(): string {
    return `list of ${this.item.describe()}`;
  }
}
