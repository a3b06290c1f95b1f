import { groupByField } from "./result.js";
import type { Schema } from "./schema.js";

export interface FormState {
  values: Record<string, unknown>;
  touched: ReadonlySet<string>;
  errors: ReadonlyMap<string, string[]>;
  submitting: boolean;
}

type Listener = (state: FormState) => void;

export interface FormStore {
  getState(): FormState;
  change(name: string, value: unknown): void;
  blur(name: string): void;
  submit(): Promise<boolean>;
  subscribe(listener: Listener): () => void;
}

export function createFormStore<T>(
  schema: Schema<T>,
  onSubmit: (value: T) => Promise<void>,
  initial: Record<string, unknown> = {},
): FormStore {
  let state: FormState = { values: initial, touched: new Set(), errors: new Map(), submitting: false };
  const listeners = new Set<Listener>();

  function update(patch: Partial<FormState>): void {
    state = { ...state, ...patch };
    listeners.forEach((listener) => listener(state));
  }

  return {
    getState() {
      return state;
    },
    change(name, value) {
      update({ values: { ...state.values, [name]: value } });
    },
    blur(name) {
      const result = schema.parse(state.values);
      update({
        touched: new Set([...state.touched, name]),
        errors: result.ok ? new Map() : groupByField(result.issues),
      });
    },
    async submit() {
      if (state.submitting) {
        return false;
      }
      const result = schema.parse(state.values);
      if (!result.ok) {
        update({ errors: groupByField(result.issues), touched: new Set(Object.keys(state.values)) });
        return false;
      }
      update({ submitting: true, errors: new Map() });
      try {
        await onSubmit(result.value);
        return true;
      } finally {
        update({ submitting: false });
      }
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function visibleErrors(state: FormState, name: string): string[] {
  return state.touched.has(name) ? state.errors.get(name) ?? [] : [];
}
