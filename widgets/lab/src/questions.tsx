/** A move's question as a dialog, for people who do not look at the panel just now. */
import { Dialog } from '@jupyterlab/apputils';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import React from 'react';
import type { ClusterModel } from './model';
import { IQuestionView, moveView } from './view';

/**
 * Shows each question once. It goes away when it is answered elsewhere; dismissed, it
 * stays in the panel.
 */
export class QuestionDialogs implements IDisposable {
  constructor(private readonly _model: ClusterModel) {
    _model.changed.connect(this._onChanged, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._dialog?.dispose();
    Signal.clearData(this);
  }

  private _onChanged(): void {
    const move = this._model.workspace?.move ?? null;
    const question = move && moveView(move, this._model.flavors, this._model.now).question;
    const key = move && question ? `${move.id} ${question.kind} ${question.text}` : '';
    if (key === this._shown) {
      return;
    }
    this._shown = key;
    this._dialog?.dispose();
    this._dialog = null;
    if (move && question) {
      void this._show(move.id, question);
    }
  }

  private async _show(move: string, question: IQuestionView): Promise<void> {
    const dialog = new Dialog<string>({
      title: question.title,
      body: <QuestionBody question={question} />,
      buttons: [...question.choices].reverse().map(({ choice, label, harmless }) =>
        Dialog.createButton({
          label,
          accept: choice !== 'cancel',
          actions: [choice],
          displayType: harmless || choice === 'cancel' ? 'default' : 'warn'
        })
      ),
      // A hasty Enter must lose nothing: it waits, or cancels.
      defaultButton: question.choices.some(one => one.harmless) ? question.choices.length - 1 : 0
    });
    this._dialog = dialog;
    // A dialog that was disposed rejects: the question was answered elsewhere.
    const result = await dialog.launch().catch(() => null);
    // Escape and the close sign give a button without actions: the question stays open.
    const choice = result?.button.actions[0];
    if (choice !== undefined) {
      await this._model.answer(move, choice);
    }
  }

  private _dialog: Dialog<string> | null = null;
  private _shown = '';
  private _isDisposed = false;
}

function QuestionBody({ question }: { question: IQuestionView }): React.ReactElement {
  return (
    <div className="dc-Dialog">
      <p>{question.text}</p>
      {question.items.length > 0 && (
        <ul>
          {question.items.map((item, index) => (
            <li key={index}>{item}</li>
          ))}
        </ul>
      )}
    </div>
  );
}
