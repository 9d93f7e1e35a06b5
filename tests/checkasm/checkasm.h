#ifndef KN_TESTS_CHECKASM_H
#define KN_TESTS_CHECKASM_H

/* Prints the speed of ops whose name holds `word`, tier by tier; an exit status. */
int bench_all(unsigned threads, const char *word);

#endif
