import React, { useSyncExternalStore } from "react";
import { visibleErrors, type FormStore } from "./store.js";

interface FieldProps {
  store: FormStore;
  name: string;
  label: string;
  hint?: string;
}

export function useFormState(store: FormStore) {
  return useSyncExternalStore(store.subscribe, store.getState, store.getState);
}

export const Field = ({ store, name, label, hint }: FieldProps) => {
  const state = useFormState(store);
  const errors = visibleErrors(state, name);
  const messageId = `${name}-message`;
  return (
    <label className="field">
      <span>{label}</span>
      <input
        name={name}
        value={String(state.values[name] ?? "")}
        aria-invalid={errors.length > 0}
        aria-describedby={messageId}
        onChange={(event) => store.change(name, event.target.value)}
        onBlur={() => store.blur(name)}
      />
      <small id={messageId}>{errors[0] ?? hint}</small>
    </label>
  );
};

export function SubmitButton({ store, children }: { store: FormStore; children: React.ReactNode }) {
  const { submitting, errors } = useFormState(store);
  return (
    <button type="button" disabled={submitting || errors.size > 0} onClick={() => void store.submit()}>
      {submitting ? "…" : children}
    </button>
  );
}

export class ErrorSummary extends React.Component<{ errors: ReadonlyMap<string, string[]> }> {
  render() {
    const rows = [...this.props.errors].flatMap(([name, messages]) => messages.map((text) => [name, text] as const));
    return rows.length === 0 ? null : (
      <ul role="alert">
        {rows.map(([name, text]) => (
          <li key={name + text}>
            <a href={`#${name}`}>{text}</a>
          </li>
        ))}
      </ul>
    );
  }
}
