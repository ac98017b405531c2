/** A pod accepts no connection. Nothing was sent. */
export declare class NotReached extends Error {
}
/**
 * Sees whether pods accept connections before they are asked. fetch would wait ten
 * seconds for that, which nobody can change.
 */
export declare class Reach {
    #private;
    constructor(pods: number);
    /** Notes that a pod has answered. */
    answered(url: string): void;
    /** Throws if a pod accepts no connection within a second, and another one may. */
    check(url: string): Promise<void>;
}
