/** Small parts of forms. */
import type { ComponentChildren, JSX } from 'preact';

interface ChoiceProps<Value extends string | number> {
  name: string;
  label: string;
  value: Value;
  options: readonly { value: Value; text: string }[];
  onChoose: (value: Value) => void;
}

/** A list to choose from, with its label. */
export function Choice<Value extends string | number>({ name, label, value, options, onChoose }: ChoiceProps<Value>): JSX.Element {
  return (
    <label class="choice">
      <span>{label}</span>
      <select
        data-control={name} value={String(value)}
        onChange={(event) => {
          const chosen = options.find((option) => String(option.value) === event.currentTarget.value);
          if (chosen) onChoose(chosen.value);
        }}
      >
        {options.map((option) => <option key={option.value} value={String(option.value)}>{option.text}</option>)}
      </select>
    </label>
  );
}

/** A few choices side by side. */
export function Switch<Value extends string>({ name, label, value, options, onChoose }: ChoiceProps<Value>): JSX.Element {
  return (
    <span class="switch" role="radiogroup" aria-label={label} data-control={name}>
      {options.map((option) => (
        <button
          type="button" role="radio" key={option.value} data-value={option.value} aria-checked={option.value === value}
          onClick={() => onChoose(option.value)}
        >
          {option.text}
        </button>
      ))}
    </span>
  );
}

interface ToggleProps {
  name: string;
  isOn: boolean;
  onToggle: (isOn: boolean) => void;
  children: ComponentChildren;
}

export function Toggle({ name, isOn, onToggle, children }: ToggleProps): JSX.Element {
  return (
    <label class="toggle">
      <input type="checkbox" data-control={name} checked={isOn} onChange={(event) => onToggle(event.currentTarget.checked)} />
      <span>{children}</span>
    </label>
  );
}
