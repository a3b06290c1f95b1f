export type Entries = Record<string, string | string[]>;

export function fromFormData(data: FormData): Entries;
export function fromFormData(data: Iterable<[string, string]>): Entries;
export function fromFormData(data: FormData | Iterable<[string, string]>): Entries {
  const collected: Entries = {};
  for (const [name, value] of data as Iterable<[string, FormDataEntryValue]>) {
    if (typeof value !== "string") {
      continue;
    }
    const earlier = collected[name];
    if (earlier === undefined) {
      collected[name] = value;
    } else {
      collected[name] = Array.isArray(earlier) ? [...earlier, value] : [earlier, value];
    }
  }
  return collected;
}

/** Turns `address.street` and `lines[0].sku` into nested objects and lists. */
export function unflatten(flat: Entries): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(flat)) {
    const steps = name.split(/[.[\]]+/).filter((step) => step !== "");
    if (steps.some(isForbidden)) {
      continue;
    }
    let here: Record<string, unknown> = root;
    steps.forEach((step, index) => {
      if (index === steps.length - 1) {
        here[step] = value;
        return;
      }
      const next = /^\d+$/.test(steps[index + 1] ?? "") ? [] : {};
      here = (here[step] ??= next) as Record<string, unknown>;
    });
  }
  return root;
}

const isForbidden = (step: string): boolean => step === "__proto__" || step === "constructor" || step === "prototype";

export function toBoolean(value: unknown): boolean {
  return value === true || value === "on" || value === "true" || value === "1";
}

export function toDate(value: string): Date | undefined {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(value);
  if (!match) {
    return undefined;
  }
  const [year, month, day] = match.slice(1).map(Number) as [number, number, number];
  const date = new Date(Date.UTC(year, month - 1, day));
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date : undefined;
}
