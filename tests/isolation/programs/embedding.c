/* A program with Python in it: runs its first argument as Python code. It imports no `site`, and starts the interpreter twice. */
#include <stdio.h>

extern int Py_NoSiteFlag;
void Py_InitializeEx(int install_signal_handlers);
int Py_FinalizeEx(void);
int PyRun_SimpleStringFlags(const char *code, void *flags);

int main(int count, char **arguments)
{
    Py_NoSiteFlag = 1;
    Py_InitializeEx(0);
    int failed = count < 2 || PyRun_SimpleStringFlags(arguments[1], NULL) != 0;
    failed |= Py_FinalizeEx() != 0;
    Py_InitializeEx(0);
    failed |= PyRun_SimpleStringFlags("print('again')", NULL) != 0;
    return failed | (Py_FinalizeEx() != 0);
}
