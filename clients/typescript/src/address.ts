/** What may be printed of addresses. It imports nothing of Node. */

/** Addresses without the user and password that are in them. */
export function withoutUser(said: string): string {
  return said.replace(/(https?:\/\/)[^/?#\s]*@/gi, "$1");
}
