/* answer_blocks.h - answers that are lists of blocks, each with a beginning, pieces and an end: a text, reasoning, or a
 * call. Turns the parser's events into blocks, for the writers of responses and messages. */
#ifndef YK_OPENAI_ANSWER_BLOCKS_H
#define YK_OPENAI_ANSWER_BLOCKS_H

#include "openai/answer_write.h"

/* How a protocol writes blocks: events to answer->blocks.events, finished blocks to answer->blocks.items. */
typedef struct yk_block_writer {
  void (*open)(yk_openai_answer *answer);  /* of a stream: the open block begins */
  void (*piece)(yk_openai_answer *answer); /* of a stream: the text from n_written on */
  void (*close)(yk_openai_answer *answer); /* the open block ends */
} yk_block_writer;

/* yk_answer_blocks_take - add an event of the parser. */
void yk_answer_blocks_take(const yk_block_writer *writer, yk_answer_choice *choice, const yk_answer_event *event);

/* yk_answer_blocks_write - of a stream: append all pending output. */
void yk_answer_blocks_write(const yk_block_writer *writer, yk_openai_answer *answer, yk_strbuf *out);

/* yk_answer_blocks_end - end the open block; an answer without blocks gets an empty text, which clients expect, unless
 *   the request was empty. */
void yk_answer_blocks_end(const yk_block_writer *writer, yk_openai_answer *answer);

/* yk_answer_blocks_piece - the text from n_written on. */
static inline const char *yk_answer_blocks_piece(const yk_answer_blocks *b, size_t *n_bytes)
{
  *n_bytes = b->text.length - b->n_written;
  return b->text.data + b->n_written;
}

bool yk_answer_blocks_failed(const yk_answer_blocks *b);
void yk_answer_blocks_free(yk_answer_blocks *b);

#endif
