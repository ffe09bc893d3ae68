import { defineConfig } from 'vitest/config';

// Names without hashes and one chunk: the server lists the files it serves, and a test compares a fresh build with what is committed.
export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../src/msmemscope/view/static',
    emptyOutDir: true,
    target: 'es2022',
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: true,
    rolldownOptions: {
      output: { entryFileNames: 'app.js', assetFileNames: 'app[extname]', codeSplitting: false },
    },
  },
  test: { include: ['tests/**/*.test.ts'], environment: 'node' },
});
