#include "cli/command_text.h"

#include <string.h>

#include "base/strbuf.h"

char *yk_command_text(const char *name, int argc, char *const *argv)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,%@";
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_str(&text, name);
  for (int i = 0; i < argc; i++) {
    size_t length = strlen(argv[i]);
    if (length > 0 && strspn(argv[i], plain) == length) {
      yk_strbuf_append_fmt(&text, " %s", argv[i]);
      continue;
    }
    yk_strbuf_append_str(&text, " '");
    for (const char *at = argv[i]; *at; at++) yk_strbuf_append(&text, *at == '\'' ? "'\\''" : at, *at == '\'' ? 4 : 1);
    yk_strbuf_append_str(&text, "'");
  }
  if (!text.failed) return text.data;
  yk_strbuf_free(&text);
  return NULL;
}
