import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './style/page.css';
import './style/views.css';
import './style/tables.css';
import { exposeHooks } from './hooks';
import { connectKeys } from './keys';
import { askJson, ProblemError } from './protocol/ask';
import type { Session } from './protocol/types';
import { notify } from './state/hover';
import { groupedBySite } from './state/fields';
import { session } from './state/lens';
import { applyPreferences } from './state/preferences';
import { change, connectAddress } from './state/store';
import { App } from './views/app';

exposeHooks();
applyPreferences();
connectAddress();
connectKeys();
const root = document.getElementById('app');
if (root) render(<App />, root);
askJson<Session>({ path: 'session', parameters: {} }).then(
  (answer) => {
    if (!answer.processes.some((process) => process.knows_owners)) change(groupedBySite(location.hash));
    session.value = answer;
    const first = answer.processes[0];
    document.title = `${first?.name ?? ''} – msmemscope view`;
  },
  (error: unknown) => notify(error instanceof ProblemError ? error.problem.message : String(error)),
);
