#include "cli/chat/chat_editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/strbuf.h"

enum {
  LOOK_MS = 100,                /* interval of checking for a signal while nothing is typed */
  HISTORY_ENTRIES = 1000,       /* maximum number kept */
  HISTORY_MAX_BYTES = 1 << 20,  /* size of the file at which dropped entries are removed */
  REMEMBER_MAX_BYTES = 64 << 10 /* longer messages are not kept */
};

struct yk_chat_editor {
  yk_interrupt *interrupt;
  const yk_log *log;
  EditLine *el;
  History *history;
  FILE *screen;          /* the same terminal as stderr, but buffered */
  struct termios before; /* the terminal's original settings */
  struct winsize size;
  yk_strbuf path; /* of the history; empty: no file */
  const char *prompt;
  char input[4096]; /* [at .. n) read and not yet consumed */
  size_t at, n;
  mbstate_t decoder;
  bool is_new; /* nothing has been read for the present line */
  int signal;  /* the signal that ended the line */
};

/* ---- Characters -------------------------------------------------------------------------------------------------- */

static void follow_size(yk_chat_editor *editor)
{
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_col == editor->size.ws_col && size.ws_row == editor->size.ws_row) return;
  editor->size = size;
  el_resize(editor->el);
}

/* Ctrl-D typed before libedit took over the terminal arrives as NUL: converts it back. */
static void restore_ends(yk_chat_editor *editor)
{
  for (size_t i = 0; i < editor->n; i++)
    if (editor->input[i] == '\0') editor->input[i] = '\4';
}

/* Reads bytes into editor->input; false at the end of input and at a signal. */
static bool fill(yk_chat_editor *editor)
{
  for (;;) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    editor->signal = yk_interrupt_take(editor->interrupt);
    if (editor->signal) return false;
    int n = poll(&input, 1, editor->is_new ? 0 : LOOK_MS);
    bool is_typed_ahead = editor->is_new && n > 0;
    editor->is_new = false;
    if (n == 0) follow_size(editor);
    if (n < 0 && errno != EINTR) return false;
    if (n <= 0) continue;
    ssize_t got = read(STDIN_FILENO, editor->input, sizeof editor->input);
    if (got < 0 && errno == EINTR) continue;
    editor->at = 0;
    editor->n = got > 0 ? (size_t)got : 0;
    if (is_typed_ahead) restore_ends(editor);
    return got > 0;
  }
}

/* For libedit: 1 and a character, or 0 at the end of input. A byte that is not UTF-8 becomes U+FFFD. */
static int read_character(EditLine *el, wchar_t *out)
{
  yk_chat_editor *editor;
  el_get(el, EL_CLIENTDATA, (void **)&editor);
  for (;;) {
    if (editor->at == editor->n && !fill(editor)) return 0;
    size_t got = mbrtowc(out, &editor->input[editor->at], 1, &editor->decoder);
    if (got == (size_t)-1) {
      memset(&editor->decoder, 0, sizeof editor->decoder);
      *out = 0xFFFD;
    }
    editor->at++;
    if (got != (size_t)-2) return 1;
  }
}

/* ---- Pasting ----------------------------------------------------------------------------------------------------- */

/* In the mode between PASTE_ON and PASTE_OFF terminals send PASTE_BEGIN and PASTE_END around pasted text. */
#define PASTE_ON    "\033[?2004h"
#define PASTE_OFF   "\033[?2004l"
#define PASTE_BEGIN "\033[200~"
static const wchar_t PASTE_END[] = L"\033[201~";

typedef struct wide_text {
  wchar_t *data; /* [length], NUL-terminated if allocated */
  size_t length, capacity;
} wide_text;

static bool add_wide(wide_text *text, wchar_t c)
{
  if (text->length + 2 > text->capacity) {
    size_t capacity = 2 * text->capacity + 256;
    wchar_t *grown = realloc(text->data, capacity * sizeof *grown);
    if (!grown) return false;
    text->data = grown;
    text->capacity = capacity;
  }
  text->data[text->length++] = c;
  text->data[text->length] = L'\0';
  return true;
}

/* Reads pasted text up to its end, with line feeds as line ends. A final line feed is dropped: the user sends the
 * message by hand. */
static bool read_paste(EditLine *el, wide_text *text)
{
  const size_t n_end = sizeof PASTE_END / sizeof *PASTE_END - 1;
  wchar_t c, last = 0;
  for (;;) {
    if (el_wgetc(el, &c) != 1) return false;
    bool is_second = c == L'\n' && last == L'\r';
    last = c;
    if (is_second) continue;
    if (c != L'\0' && !add_wide(text, c == L'\r' ? L'\n' : c)) return false;
    if (text->length < n_end || wmemcmp(text->data + text->length - n_end, PASTE_END, n_end) != 0) continue;
    text->length -= n_end;
    if (text->length > 0 && text->data[text->length - 1] == L'\n') text->length--;
    text->data[text->length] = L'\0';
    return true;
  }
}

static unsigned char paste(EditLine *el, int key)
{
  (void)key;
  wide_text text = {0};
  bool done = read_paste(el, &text);
  bool inserted = done && (text.length == 0 || el_winsertstr(el, text.data) == 0);
  free(text.data);
  if (!done) return CC_EOF; /* end of input, or a signal */
  return inserted ? CC_REFRESH : CC_ERROR;
}

static unsigned char insert_line_feed(EditLine *el, int key)
{
  (void)key;
  return el_winsertstr(el, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* ---- History ----------------------------------------------------------------------------------------------------- */

static void keep_no_history(yk_chat_editor *editor, const char *why)
{
  yk_log_write(editor->log, YK_LOG_WARN, "%s: %s; the history has only this chat", editor->path.data, why);
  yk_strbuf_free(&editor->path);
}

/* Creates every missing folder of path, accessible only by its owner. */
static bool make_folders(char *path)
{
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    bool failed = mkdir(path, 0700) != 0 && errno != EEXIST;
    *slash = '/';
    if (failed) return false;
  }
  return true;
}

static void find_path(yk_chat_editor *editor)
{
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  if (state && state[0] == '/')
    yk_strbuf_append_fmt(&editor->path, "%s/yoke/chat_history", state);
  else if (home && home[0] == '/')
    yk_strbuf_append_fmt(&editor->path, "%s/.local/state/yoke/chat_history", home);
  if (editor->path.failed) yk_strbuf_free(&editor->path);
}

/* Opens the file for appending and makes it readable only by its owner, independent of its previous mode; NULL if it
 * cannot be written. */
static FILE *open_history(const yk_chat_editor *editor, int flags)
{
  int fd = open(editor->path.data, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  FILE *file = fd >= 0 && fchmod(fd, 0600) == 0 ? fdopen(fd, "a") : NULL;
  if (!file && fd >= 0) close(fd);
  if (file) fseek(file, 0, SEEK_END); /* libedit reads the position to decide on the first line of the file */
  return file;
}

/* Writes all entries of a history to the file, after its contents or (flags: O_TRUNC) in place of them. */
static bool write_history(const yk_chat_editor *editor, History *entries, int flags)
{
  HistEvent event;
  FILE *file = open_history(editor, flags);
  bool written = file && history(entries, &event, H_SAVE_FP, file) >= 0;
  if (file && fclose(file) != 0) written = false;
  return written;
}

/* Appends one message as a history of one entry, since libedit writes only whole histories. */
static bool append_message(const yk_chat_editor *editor, const char *message)
{
  HistEvent event;
  History *one = history_init();
  if (!one) return false;
  history(one, &event, H_SETSIZE, 1);
  bool written = history(one, &event, H_ENTER, message) > 0 && write_history(editor, one, 0);
  history_end(one);
  return written;
}

static void load_history(yk_chat_editor *editor)
{
  HistEvent event;
  struct stat info;
  find_path(editor);
  if (!editor->path.data) return;
  if (!make_folders(editor->path.data)) {
    keep_no_history(editor, strerror(errno));
    return;
  }
  if (stat(editor->path.data, &info) != 0 || info.st_size == 0) return;
  if (history(editor->history, &event, H_LOAD, editor->path.data) < 0)
    keep_no_history(editor, "no history of libedit's, or not readable");
  else if (info.st_size > HISTORY_MAX_BYTES && !write_history(editor, editor->history, O_TRUNC))
    keep_no_history(editor, strerror(errno));
}

void yk_chat_editor_remember(yk_chat_editor *editor, const char *message)
{
  HistEvent event;
  if (strlen(message) > REMEMBER_MAX_BYTES || history(editor->history, &event, H_ENTER, message) <= 0) return;
  if (editor->path.data && !append_message(editor, message)) keep_no_history(editor, strerror(errno));
}

/* ---- The editor -------------------------------------------------------------------------------------------------- */

static char *show_prompt(EditLine *el)
{
  yk_chat_editor *editor;
  el_get(el, EL_CLIENTDATA, (void **)&editor);
  return (char *)(uintptr_t)editor->prompt;
}

/* Binds keys that libedit does not bind, and those that bash binds differently; ~/.editrc is read later and overrides
 * them. */
static void bind_keys(EditLine *el)
{
  static const char *const keys[][2] = {
      {"^R", "em-inc-search-prev"}, {"^W", "ed-delete-prev-word"}, {"\\e[3~", "ed-delete-next-char"},
      {"\\e[1~", "ed-move-to-beg"}, {"\\e[4~", "ed-move-to-end"},  {"\\e[H", "ed-move-to-beg"},
      {"\\e[F", "ed-move-to-end"},  {"\\eOH", "ed-move-to-beg"},   {"\\eOF", "ed-move-to-end"},
      {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"},  {"\\e\\r", "yoke-line-feed"},
      {"\\e\\n", "yoke-line-feed"}, {"\\e[200~", "yoke-paste"},
  };
  el_set(el, EL_ADDFN, "yoke-paste", "insert what is pasted", paste);
  el_set(el, EL_ADDFN, "yoke-line-feed", "insert a line feed", insert_line_feed);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) el_set(el, EL_BIND, keys[i][0], keys[i][1], NULL);
}

static bool open_editor(yk_chat_editor *editor)
{
  HistEvent event;
  int fd = dup(STDERR_FILENO);
  editor->screen = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!editor->screen && fd >= 0) close(fd);
  if (!editor->screen) return false;
  editor->el = el_init("yoke", stdin, editor->screen, editor->screen);
  editor->history = history_init();
  if (!editor->el || !editor->history) return false;
  history(editor->history, &event, H_SETSIZE, HISTORY_ENTRIES);
  history(editor->history, &event, H_SETUNIQUE, 1);
  el_set(editor->el, EL_CLIENTDATA, editor);
  el_set(editor->el, EL_GETCFN, read_character);
  el_set(editor->el, EL_PROMPT, show_prompt);
  el_set(editor->el, EL_HIST, history, editor->history);
  el_set(editor->el, EL_EDITOR, "emacs");
  /* CR and LF are read unchanged; else lines of a paste that end in both would be two each. */
  el_set(editor->el, EL_SETTY, "-d", "-icrnl", "-inlcr", NULL);
  bind_keys(editor->el);
  el_source(editor->el, NULL);
  return true;
}

/* Whether there is a terminal with a movable cursor, and this process is in its foreground: a background process must
 * not change the terminal's settings. */
static bool has_terminal(void)
{
  const char *term = getenv("TERM");
  return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb") != 0 &&
         tcgetpgrp(STDIN_FILENO) == getpgrp();
}

yk_status yk_chat_editor_create(yk_interrupt *interrupt, bool keeps_history, const yk_log *log, yk_chat_editor **out,
                                yk_err *err)
{
  *out = NULL;
  struct termios before;
  if (!has_terminal() || tcgetattr(STDIN_FILENO, &before) != 0) return YK_OK;
  if (!setlocale(LC_CTYPE, "C.UTF-8")) return YK_OK; /* locale in which libedit reads and measures characters */
  yk_chat_editor *editor = calloc(1, sizeof *editor);
  if (!editor) return yk_err_set(err, YK_E_NOMEM, "no memory for a line editor");
  editor->interrupt = interrupt;
  editor->log = log;
  editor->before = before;
  if (!open_editor(editor)) {
    yk_chat_editor_free(editor);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a line editor");
  }
  if (keeps_history) load_history(editor);
  yk_interrupt_restore(interrupt, &editor->before);
  struct termios silent = before;
  silent.c_lflag &= ~(tcflag_t)ECHO;
  tcsetattr(STDIN_FILENO, TCSANOW, &silent);
  *out = editor;
  return YK_OK;
}

void yk_chat_editor_free(yk_chat_editor *editor)
{
  if (!editor) return;
  yk_interrupt_restore(editor->interrupt, NULL);
  tcsetattr(STDIN_FILENO, TCSANOW, &editor->before);
  if (editor->el) el_end(editor->el);
  if (editor->history) history_end(editor->history);
  if (editor->screen) fclose(editor->screen);
  yk_strbuf_free(&editor->path);
  free(editor);
}

void yk_chat_editor_read(yk_chat_editor *editor, const char *prompt, yk_editor_line *out)
{
  int n = 0;
  editor->prompt = prompt;
  editor->signal = 0;
  editor->is_new = true;
  fputs(PASTE_ON, editor->screen);
  follow_size(editor);
  const char *text = el_gets(editor->el, &n);
  fputs(PASTE_OFF, editor->screen);
  fflush(editor->screen);
  *out = (yk_editor_line){.event = YK_EDITOR_END, .signal = editor->signal};
  if (editor->signal) out->event = YK_EDITOR_SIGNAL;
  if (editor->signal || !text || n <= 0) return;
  out->event = YK_EDITOR_LINE;
  out->text = text;
  out->n_bytes = (size_t)n - (text[n - 1] == '\n');
}
