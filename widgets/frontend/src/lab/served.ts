// What our server extension answers, asked with the credentials of the page.

import { PageConfig, URLExt } from "@jupyterlab/coreutils";
import { ServerConnection } from "@jupyterlab/services";
import { keptIn } from "./kept";
import { Refused, type Query, type Served } from "./viewer/served";

/** Asks below `<base>gradwright/`; what it refuses is a `Refused`, which says why. */
export function servedBy(settings: ServerConnection.ISettings): Served {
  const kept = PageConfig.getOption("gradwrightAnswers"); // the folder of a site without a server
  if (kept) return keptIn(URLExt.join(settings.baseUrl, kept));
  return {
    async get<T>(what: string, query: Query, signal?: AbortSignal): Promise<T> {
      const asked = new URLSearchParams();
      for (const [key, value] of Object.entries(query)) if (value !== undefined) for (const one of Array.isArray(value) ? value : [value]) asked.append(key, String(one));
      const url = URLExt.join(settings.baseUrl, "gradwright", what) + (asked.size ? `?${asked}` : "");
      let answer: Response;
      try {
        answer = await ServerConnection.makeRequest(url, { method: "GET", signal }, settings);
      } catch (error) {
        if (signal?.aborted) throw error;
        throw new Refused("The server does not answer", 0, "", [], "", "It is asked again when it is back.", "away");
      }
      const told = parsed(await answer.text());
      if (answer.ok && told) return told as T;
      const { message, where, facts, need, hint, code } = (told ?? {}) as Partial<Refused>;
      if (facts) throw new Refused(message ?? "", answer.status, where, facts, need, hint, code);
      throw new Refused("This server does not read models", answer.status, "", [`it answered ${answer.status}`],
        "the server extension gradwright_widgets.server",
        "`jupyter server extension list` says whether it is enabled; after an installation the server is to be started again.", "absent");
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
