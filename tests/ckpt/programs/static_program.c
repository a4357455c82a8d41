/* static_program.c: a program without a dynamic loader. */
int main(void)
{
    return 3;
}
