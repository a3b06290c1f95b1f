export interface Issue {
  path: ReadonlyArray<string | number>;
  code: string;
  message: string;
}

export type Result<T> = { ok: true; value: T } | { ok: false; issues: Issue[] };

export function accept<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function reject<T>(code: string, message: string): Result<T> {
  return { ok: false, issues: [{ path: [], code, message }] };
}

/** Puts a step in front of the path of every issue, for errors that come out of a nested value. */
export const below = <T>(step: string | number, result: Result<T>): Result<T> => {
  if (result.ok) {
    return result;
  }
  return { ok: false, issues: result.issues.map((issue) => ({ ...issue, path: [step, ...issue.path] })) };
};

export function formatPath(path: Issue["path"]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === "number") {
      return `${text}[${step}]`;
    }
    return text === "" ? step : `${text}.${step}`;
  }, "");
}

export function groupByField(issues: readonly Issue[]): Map<string, string[]> {
  const grouped = new Map<string, string[]>();
  for (const issue of issues) {
    const name = formatPath(issue.path);
    grouped.set(name, [...(grouped.get(name) ?? []), issue.message]);
  }
  return grouped;
}
