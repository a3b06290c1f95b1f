version https://git-lfs.github.com/spec/v1
oid sha256:2b0a3f7d5ce1846f9d5b7a1f0c46d8b93e7a6c25d10f48e9b7c3a5f2e1d09b84
size 1843200
