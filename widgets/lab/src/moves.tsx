/** The panel's parts about moves: progress, questions, the plan. */
import React, { useEffect, useState } from 'react';
import type { ClusterModel } from './model';
import type { IWorkspace } from './records';
import { formatSeconds, IMoveView, IStepRow, moveView, planView, wentBack } from './view';

const TICK_MS = 100;

interface IPart {
  model: ClusterModel;
  workspace: IWorkspace;
}

/** Draw again ten times a second while `active`, so that times run. */
function useTicks(active: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!active) {
      return;
    }
    const timer = setInterval(() => tick(n => n + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [active]);
}

/** The newest move: its steps while it runs, and how it ended. */
export function MoveSection({ model, workspace }: IPart): React.ReactElement | null {
  const move = workspace.move;
  const running = move?.status === 'running';
  useTicks(running);
  const [hidden, hide] = useState('');
  if (move === null || (move.id === hidden && move.status !== 'running')) {
    return null;
  }
  const view = moveView(move, model.flavors, model.now);
  if (view.status === 'queued') {
    return <Queued model={model} view={view} />;
  }
  const tone = { done: ' dc-mod-good', failed: ' dc-mod-bad' }[view.status as string] ?? '';
  const showsSteps = view.open || move.steps.length > 0;
  return (
    <section className={`dc-Card dc-Move${tone}`} aria-label="Progress" data-status={view.status}>
      {showsSteps && (
        <>
          <div className="dc-Move-top">
            <span className="dc-Move-title">{view.title}</span>
            {view.totalSeconds !== null && (
              <span className="dc-Time" data-testid="total">
                {formatSeconds(view.totalSeconds)}
              </span>
            )}
          </div>
          <ol className="dc-Steps">
            {view.rows.map(row => (
              <StepItem key={row.key} row={row} />
            ))}
          </ol>
        </>
      )}
      {view.sentence && (
        <p className="dc-Sentence" role="status" data-testid="outcome">
          {view.status === 'done' && <Mark status="done" />}
          <span>{view.sentence}</span>
        </p>
      )}
      {wentBack(workspace) && (
        <p className="dc-Muted">The workspace is where it was. Nothing was lost.</p>
      )}
      <div className="dc-Actions">
        {view.cancellable && view.question === null && <Cancel model={model} />}
        {!view.open && (
          <button className="dc-Button dc-mod-quiet" onClick={() => hide(move.id)}>
            Hide
          </button>
        )}
      </div>
    </section>
  );
}

function Queued({ model, view }: { model: ClusterModel; view: IMoveView }): React.ReactElement {
  return (
    <section className="dc-Card dc-mod-waiting" aria-label="Queue" data-status="queued">
      <p className="dc-Sentence" role="status" data-testid="outcome">
        {view.sentence}
      </p>
      <p className="dc-Muted">You can go on working; the move begins by itself.</p>
      <div className="dc-Actions">{view.cancellable && <Cancel model={model} />}</div>
    </section>
  );
}

function Cancel({ model }: { model: ClusterModel }): React.ReactElement {
  return (
    <button
      className="dc-Button"
      disabled={model.asking !== ''}
      onClick={() => void model.cancel()}
      data-testid="cancel"
    >
      Cancel
    </button>
  );
}

function StepItem({ row }: { row: IStepRow }): React.ReactElement {
  return (
    <li
      className={`dc-Step dc-mod-${row.status}`}
      data-step={row.key}
      data-status={row.status}
      title={row.hint}
    >
      <Mark status={row.status} />
      <span className="dc-Step-text">
        <span className="dc-Step-label">{row.label}</span>
        <span className="dc-Muted">{row.note || (row.status === 'active' ? row.hint : '')}</span>
      </span>
      <span className="dc-Time">{row.seconds === null ? '' : formatSeconds(row.seconds)}</span>
    </li>
  );
}

const WORDS: Record<IStepRow['status'], string> = {
  pending: 'to come',
  active: 'under way',
  done: 'done',
  failed: 'failed',
  stopped: 'cancelled'
};

/** A ring, a spinner, a check, a cross, or a dash. */
function Mark({ status }: { status: IStepRow['status'] }): React.ReactElement {
  return (
    <svg className={`dc-Mark dc-mod-${status}`} viewBox="0 0 16 16" role="img">
      <title>{WORDS[status]}</title>
      {status === 'pending' && <circle cx="8" cy="8" r="5.5" className="dc-Mark-line" />}
      {status === 'active' && (
        <>
          <circle cx="8" cy="8" r="5.500" className="dc-Mark-track" />
          <path d="M8 2.500a5.500 5.500 0 0 1 5.500 5.500" className="dc-Mark-line" />
        </>
      )}
      {status !== 'pending' && status !== 'active' && <circle cx="8" cy="8" r="7" />}
      {status === 'done' && <path d="M4.800 8.300l2.200 2.200 4.200-4.600" className="dc-Mark-sign" />}
      {status === 'failed' && <path d="M5.500 5.500l5 5m0-5l-5 5" className="dc-Mark-sign" />}
      {status === 'stopped' && <path d="M5 8h6" className="dc-Mark-sign" />}
    </svg>
  );
}

/** What the move asks; works whether or not its dialog was dismissed. */
export function QuestionSection({ model }: { model: ClusterModel }): React.ReactElement | null {
  const move = model.workspace?.move ?? null;
  const question = move && moveView(move, model.flavors, model.now).question;
  if (move === null || !question) {
    return null;
  }
  return (
    <section className="dc-Card dc-mod-waiting" aria-label="Question" data-testid="question">
      <h3>{question.title}</h3>
      <p>{question.text}</p>
      {question.items.length > 0 && (
        <ul className="dc-Items">
          {question.items.map((item, index) => (
            <li key={index}>{item}</li>
          ))}
        </ul>
      )}
      <div className="dc-Actions">
        {question.choices.map(({ choice, label, harmless }) => (
          <button
            key={choice}
            className={harmless ? 'dc-Button dc-mod-primary' : 'dc-Button'}
            disabled={model.asking !== ''}
            onClick={() => void model.answer(move.id, choice)}
            data-choice={choice}
          >
            {label}
          </button>
        ))}
      </div>
    </section>
  );
}

/** "What would move?": the plan of a switch that is not made. */
export function PlanSection({ model, workspace }: IPart): React.ReactElement | null {
  if (workspace.state !== 'running') {
    return null;
  }
  if (model.plan === null) {
    const flavor = model.flavors.find(view => view.flavor.name !== workspace.flavor)?.flavor.name;
    return flavor === undefined ? null : (
      <button
        className="dc-Link"
        disabled={model.asking !== ''}
        onClick={() => void model.showPlan(flavor)}
        data-testid="plan-link"
      >
        {model.asking === 'plan' ? 'Looking at your kernels…' : 'What would move?'}
      </button>
    );
  }
  const view = planView(model.plan);
  return (
    <section className="dc-Card" aria-label="Plan" data-testid="plan">
      <h3>{view.title}</h3>
      <ul className="dc-Items">
        {view.lines.map((line, index) => (
          <li key={index} className={`dc-mod-${line.tone}`}>
            {line.text}
          </li>
        ))}
      </ul>
      <div className="dc-Actions">
        <button className="dc-Button dc-mod-quiet" onClick={() => model.hidePlan()}>
          Hide
        </button>
      </div>
    </section>
  );
}
