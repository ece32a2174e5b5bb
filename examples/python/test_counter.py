from counter import COUNT, Counter

OPTIONS = {"topics": "orders", "subsystem": "counter", "state_collections": [COUNT]}


async def test_each_message_counts_once(prosody_service):
    async with prosody_service(Counter(), **OPTIONS) as service:
        for key in ("a", "b", "a"):
            await service.send("orders", key, {})
        service.fail("write", "a", times=3)  # is made again
        await service.idle()
        await service.restart()
        await service.idle()
        counts = service.state(COUNT)
        assert [await counts.get(key) for key in ("a", "b", "c")] == [2, 1, None]


async def test_an_excised_key_starts_anew(prosody_service):
    async with prosody_service(Counter(), **OPTIONS) as service:
        await service.send("orders", "a", {})
        await service.excise("orders", "a")
        await service.send("orders", "a", {})
        await service.idle()
        assert await service.state(COUNT).get("a") == 1
