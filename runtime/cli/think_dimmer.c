#include "cli/think_dimmer.h"

#include <string.h>

static const char OPEN[] = "<think>", CLOSE[] = "</think>", DIM[] = "\033[2m", NORMAL[] = "\033[22m";

static bool is_space(char c)
{
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void yk_think_dimmer_begin(yk_think_dimmer *dimmer, const char *prompt_tail, yk_strbuf *out)
{
  size_t length = strlen(prompt_tail), n_open = sizeof OPEN - 1;
  while (length > 0 && is_space(prompt_tail[length - 1])) length--;
  bool is_open = length >= n_open && memcmp(prompt_tail + length - n_open, OPEN, n_open) == 0;
  *dimmer = (yk_think_dimmer){.state = is_open ? YK_THINK_INSIDE : YK_THINK_BEGINNING};
  if (is_open) yk_strbuf_append_str(out, DIM);
}

static void release(yk_think_dimmer *dimmer, yk_strbuf *out)
{
  yk_strbuf_append(out, dimmer->held, dimmer->n_held);
  dimmer->n_held = 0;
}

/* The next tag that changes the state. */
static const char *awaited(const yk_think_dimmer *dimmer)
{
  return dimmer->state == YK_THINK_BEGINNING ? OPEN : CLOSE;
}

/* Takes a character that begins or continues the held tag. */
static void take_tag(yk_think_dimmer *dimmer, char c, yk_strbuf *out)
{
  dimmer->held[dimmer->n_held++] = c;
  if (awaited(dimmer)[dimmer->n_held]) return;
  bool opens = dimmer->state == YK_THINK_BEGINNING;
  if (opens) yk_strbuf_append_str(out, DIM);
  release(dimmer, out);
  if (!opens) yk_strbuf_append_str(out, NORMAL);
  dimmer->state = opens ? YK_THINK_INSIDE : YK_THINK_BEHIND;
}

void yk_think_dimmer_add(yk_think_dimmer *dimmer, const char *text, size_t n_bytes, yk_strbuf *out)
{
  for (size_t i = 0; i < n_bytes; i++) {
    if (dimmer->state == YK_THINK_BEHIND) {
      yk_strbuf_append(out, text + i, n_bytes - i);
      return;
    }
    char c = text[i];
    if (dimmer->n_held > 0 && c != awaited(dimmer)[dimmer->n_held]) {
      release(dimmer, out);
      if (dimmer->state == YK_THINK_BEGINNING) dimmer->state = YK_THINK_BEHIND;
    }
    if (dimmer->state != YK_THINK_BEHIND && c == awaited(dimmer)[dimmer->n_held]) {
      take_tag(dimmer, c, out);
      continue;
    }
    if (dimmer->state == YK_THINK_BEGINNING && !is_space(c)) dimmer->state = YK_THINK_BEHIND;
    yk_strbuf_append(out, &c, 1);
  }
}

void yk_think_dimmer_end(yk_think_dimmer *dimmer, yk_strbuf *out)
{
  release(dimmer, out);
  if (dimmer->state == YK_THINK_INSIDE) yk_strbuf_append_str(out, NORMAL);
  dimmer->state = YK_THINK_BEHIND;
}
