/* single_quotes.h - JSON in C strings has ' in place of ", which keeps tables of cases readable. */
#ifndef YK_UNIT_SINGLE_QUOTES_H
#define YK_UNIT_SINGLE_QUOTES_H

#include <stdlib.h>
#include <string.h>

/* A copy of text with " for every '. The caller frees it. */
static inline char *double_quoted(const char *text)
{
  char *copy = strdup(text);
  for (char *c = copy; c && *c; c++)
    if (*c == '\'') *c = '"';
  return copy;
}

#endif
