/* Prints help from the tables that parsing uses, so that help cannot name an option that does not exist. */
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/units.h"
#include "cli/options/options.h"

enum { HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* Prints words, each line from column indent on; the cursor is already there for the first line. */
static void print_wrapped(const char *text, int indent)
{
  for (int column = indent; *text;) {
    int length = (int)strcspn(text, " ");
    if (column > indent && column + 1 + length > HELP_WIDTH) {
      printf("\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      putchar(' ');
      column++;
    }
    printf("%.*s", length, text);
    column += length;
    text += length + strspn(text + length, " ");
  }
  putchar('\n');
}

static void append_default(yk_strbuf *text, const yk_option *option)
{
  if (option->fallback) {
    if (option->fallback[0]) yk_strbuf_append_fmt(text, " [%s]", option->fallback);
    return;
  }
  char bytes[YK_BYTES_TEXT];
  switch (option->kind) {
  case YK_OPTION_INT:
  case YK_OPTION_TOKENS: yk_strbuf_append_fmt(text, " [%d]", (int)*(const int32_t *)option->value); break;
  case YK_OPTION_SEED:
    yk_strbuf_append_fmt(text, " [%llu]", (unsigned long long)*(const uint64_t *)option->value);
    break;
  case YK_OPTION_NUMBER: yk_strbuf_append_fmt(text, " [%g]", *(const double *)option->value); break;
  case YK_OPTION_CHOICE: yk_strbuf_append_fmt(text, " [%s]", option->choices[*(const int *)option->value]); break;
  case YK_OPTION_BYTES:
    yk_strbuf_append_fmt(text, " [%s]", yk_bytes_format(*(const int64_t *)option->value, bytes));
    break;
  case YK_OPTION_FLAG:
  case YK_OPTION_STRING:
  case YK_OPTION_CALL: break;
  }
}

static void print_option(const yk_option *option)
{
  yk_strbuf left = YK_STRBUF_INIT, right = YK_STRBUF_INIT;
  yk_strbuf_append_str(&left, "  ");
  if (option->short_name)
    yk_strbuf_append_fmt(&left, "%s%s, ", strlen(option->short_name) > 1 ? "--" : "-", option->short_name);
  yk_strbuf_append_fmt(&left, "--%s", option->name);
  if (option->metavar)
    yk_strbuf_append_fmt(&left, " %s", option->metavar);
  else if (option->kind == YK_OPTION_CHOICE)
    for (int i = 0; option->choices[i]; i++) yk_strbuf_append_fmt(&left, "%c%s", i ? '|' : ' ', option->choices[i]);
  yk_strbuf_append_str(&right, option->help);
  append_default(&right, option);
  if (!left.failed && !right.failed) {
    fputs(left.data, stdout);
    if (left.length + 2 > HELP_COLUMN)
      printf("\n%*s", HELP_COLUMN, "");
    else
      printf("%*s", HELP_COLUMN - (int)left.length, "");
    print_wrapped(right.data, HELP_COLUMN);
  }
  yk_strbuf_free(&left);
  yk_strbuf_free(&right);
}

void yk_options_help(const yk_command *command)
{
  printf("Usage: %s %s\n\n", command->name, command->usage);
  print_wrapped(command->about, 0);
  printf("\nDefaults stand in brackets.\n");
  for (size_t g = 0; g < command->n_groups; g++) {
    const yk_option_group *group = &command->groups[g];
    printf("\n%s:\n", group->title);
    for (size_t i = 0; i < group->n_options; i++) {
      if (group->options[i].heading) printf("\n%s:\n", group->options[i].heading);
      print_option(&group->options[i]);
    }
  }
  printf("\nExamples:\n%s", command->examples);
}
