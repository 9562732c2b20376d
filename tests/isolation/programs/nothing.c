/* A program without CUDA. */
int main(void)
{
    return 0;
}
