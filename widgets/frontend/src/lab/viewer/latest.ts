// One question after the other, as a pointer moves: of those that come while one is asked, the last.

/**
 * It ends none: a question that is broken off costs the server the process that reads for it, and what that has at hand. One
 * that fails is over; who asks it tells of that.
 */
export class Latest {
  private next: (() => Promise<void>) | undefined;
  private asks = false;

  ask(question: () => Promise<void>): void {
    this.next = question;
    if (!this.asks) void this.run();
  }

  /** Asks nothing more. */
  drop(): void {
    this.next = undefined;
  }

  private async run(): Promise<void> {
    this.asks = true;
    for (let question = this.next; question; question = this.next) {
      this.next = undefined;
      await question().catch(() => undefined);
    }
    this.asks = false;
  }
}
