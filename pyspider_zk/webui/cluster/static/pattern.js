// Shell patterns, by which the API selects projects.

/** Return the pattern that matches a project's name alone: a row may have any. */
export const patternOf = (name) => name.replace(/[*?[]/g, "[$&]");
