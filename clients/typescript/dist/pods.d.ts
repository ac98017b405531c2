/** The addresses of the pods of a cluster, or of one server. One is asked until it
 * fails, then the next one. Sends nothing itself. */
export declare class Pods {
    #private;
    constructor(urls: readonly string[]);
    get length(): number;
    /** The one to ask. */
    get current(): string;
    /** Turns to the next one, unless another request has done so. */
    failed(url: string): void;
}
/** The newest change of each lane of the cluster that this client was told of. */
export declare class Positions {
    #private;
    /** Notes what an answer says. */
    note(headers: Headers): void;
    /** Forgets all, where the cluster does not know them; whether there were any. */
    forget(): boolean;
    /** What a question has to say, so that its answer takes these into account. */
    headers(): Record<string, string>;
}
