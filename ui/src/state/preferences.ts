/** What the reader prefers, whatever is looked at: kept in the browser, not in the address that is shared. */
import { computed, effect, signal } from '@preact/signals';
import { THEMES, themeVariables, type Theme, type ThemeName } from '../colour/palette';

export type Language = 'en' | 'zh';
export type ThemeChoice = 'auto' | ThemeName;

const THEME_KEY = 'msmemscope.view.theme';
const LANGUAGE_KEY = 'msmemscope.view.language';

function kept(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // Storage may be forbidden.
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Then the choice holds for this page only.
  }
}

function keptTheme(): ThemeChoice {
  const value = kept(THEME_KEY);
  return value === 'light' || value === 'dark' ? value : 'auto';
}

export const language = signal<Language>((kept(LANGUAGE_KEY) ?? navigator.language).startsWith('zh') ? 'zh' : 'en');
export const themeChoice = signal<ThemeChoice>(keptTheme());

const darkQuery = matchMedia('(prefers-color-scheme: dark)');
const isSystemDark = signal(darkQuery.matches);
darkQuery.addEventListener('change', (event) => { isSystemDark.value = event.matches; });

export const theme = computed<Theme>(() => {
  const name = themeChoice.value === 'auto' ? (isSystemDark.value ? 'dark' : 'light') : themeChoice.value;
  return THEMES[name];
});

/** Puts the colours and the language on the page, and keeps them. */
export function applyPreferences(): void {
  effect(() => {
    const root = document.documentElement;
    for (const [name, colour] of themeVariables(theme.value)) root.style.setProperty(name, colour);
    root.style.colorScheme = theme.value === THEMES.dark ? 'dark' : 'light';
    keep(THEME_KEY, themeChoice.value);
  });
  effect(() => {
    document.documentElement.lang = language.value === 'zh' ? 'zh-CN' : 'en';
    keep(LANGUAGE_KEY, language.value);
  });
}
