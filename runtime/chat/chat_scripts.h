/* chat_scripts.h - the helper's Python modules as text, which the build makes of the *.py files of this folder. */
#ifndef YK_CHAT_CHAT_SCRIPTS_H
#define YK_CHAT_CHAT_SCRIPTS_H

typedef struct yk_chat_script {
  const char *name, *text; /* of a module; NUL-terminated */
} yk_chat_script;

/* In the order in which they can be imported; the last one's main runs. */
enum { YK_CHAT_SCRIPTS = 3 };
extern const yk_chat_script yk_chat_scripts[YK_CHAT_SCRIPTS];

#endif
