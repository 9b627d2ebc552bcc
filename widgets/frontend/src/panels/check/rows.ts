// How bad a verdict is, and which are trouble.

import { VERDICTS, type Verdict } from "./store";

interface Judged {
  verdict: Verdict;
}

export const isTrouble = ({ verdict }: Judged): boolean => !["ok", "unchecked", "surrogate"].includes(verdict);
export const badness = ({ verdict }: Judged): number => VERDICTS.indexOf(verdict);
