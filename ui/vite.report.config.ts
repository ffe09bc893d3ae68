import { defineConfig } from 'vite';
import { FAILED_COLOUR, MARK_COLOUR, THEMES, themeVariables, type ThemeName } from './src/colour/palette.ts';

function colours(theme: ThemeName): string {
  const variables = [...themeVariables(THEMES[theme]), ['--failed', FAILED_COLOUR], ['--mark', MARK_COLOUR]];
  return variables.map(([name, colour]) => `${name}: ${colour};`).join(' ');
}

// The script and the style of `msmemscope report`, which stand in every report: one file each.
export default defineConfig({
  plugins: [{
    name: 'colours',
    enforce: 'pre',
    transform: (code, id) => (id.endsWith('.css') ? code.replace(/--theme: (\w+);/g, (_, theme) => colours(theme as ThemeName)) : undefined),
  }],
  build: {
    outDir: '../src/msmemscope/reports/html/static',
    emptyOutDir: true,
    target: 'es2022',
    cssCodeSplit: false,
    modulePreload: false,
    rolldownOptions: {
      input: 'src/report/main.ts',
      output: { format: 'iife', entryFileNames: 'report.js', assetFileNames: 'report[extname]', codeSplitting: false },
    },
  },
});
